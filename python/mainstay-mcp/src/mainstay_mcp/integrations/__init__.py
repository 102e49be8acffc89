"""Frameworks. Each module needs its framework, and is imported by its name; LangChain needs none (docs/python.md).

What they have in common: no framework repeats a call whose outcome is `unknown`. The model reads that it may have run.
"""
