"""A browser and the person in front of it: opens an address or a file, follows redirects, submits each form it is shown.

    person.py ADDRESS [CODE | --stop-at=PATH]

CODE goes into the field of a page that asks for one. With --stop-at, a redirect to PATH is not followed. Prints the address that it
ends at.
"""

import html.parser
import sys
import urllib.error
import urllib.parse
import urllib.request

STEPS_LIMIT = 10


class Forms(html.parser.HTMLParser):
    """The first form of a page, with its fields."""

    def __init__(self):
        super().__init__()
        self.action = None
        self.fields = {}
        self.is_open = False
        self.refresh = None

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "form" and self.action is None:
            self.action, self.is_open = given.get("action"), True
        elif tag == "meta" and given.get("http-equiv") == "refresh":
            self.refresh = given["content"].partition("url=")[2]
        elif tag == "input" and self.is_open and given.get("name"):
            self.fields[given["name"]] = given.get("value")

    def handle_endtag(self, tag):
        if tag == "form":
            self.is_open = False


class Stopped(Exception):
    """The browser does not go to this address."""


class Redirects(urllib.request.HTTPRedirectHandler):
    def __init__(self, stop_at):
        self.stop_at = stop_at

    def redirect_request(self, request, page, code, message, headers, address):
        if self.stop_at and urllib.parse.urlsplit(address).path == self.stop_at:
            raise Stopped(address)
        return super().redirect_request(request, page, code, message, headers, address)


def main():
    address, given = sys.argv[1], (sys.argv[2:] + [""])[0]
    option = "--stop-at="
    stop_at = given[len(option):] if given.startswith(option) else None
    code = None if stop_at else given
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(), Redirects(stop_at))
    page = browser.open(address, timeout=20)
    for _ in range(STEPS_LIMIT):
        forms = Forms()
        forms.feed(page.read().decode())
        if forms.refresh:
            page = browser.open(forms.refresh, timeout=20)
            continue
        if forms.action is None:
            print(page.geturl())
            return
        fields = {name: value if value is not None else code or "" for name, value in forms.fields.items()}
        action = urllib.parse.urljoin(page.geturl(), forms.action)
        page = browser.open(action, data=urllib.parse.urlencode(fields).encode(), timeout=20)
    sys.exit("the pages never end")


try:
    main()
except Stopped as stopped:
    print(stopped)
except urllib.error.HTTPError as refused:
    # The page that says no is a page too.
    print(refused.geturl())
