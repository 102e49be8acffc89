"""The MCP client of NVIDIA NeMo Agent Toolkit, told what to do.

    nat_client.py CONFIGURATION LEDGER STEPS

CONFIGURATION is a file of the toolkit, whose one function group is the server. LEDGER is the file in which the server notes `start PID`
when it starts. STEPS is a JSON array of objects; `do` says what. One line of JSON on stdout says what came of each.
"""

import asyncio
import json
import os
import signal
import sys

from nat.builder.workflow_builder import WorkflowBuilder
from nat.runtime.loader import load_config

GONE_WITHIN = 30
LOOK = 0.005


class Steps:
    def __init__(self, functions, ledger):
        # The toolkit calls a tool GROUP__TOOL.
        self.functions = {name.split("__")[-1]: function for name, function in functions.items()}
        self.ledger = ledger

    async def list(self, step):
        return {"tools": sorted(self.functions)}

    async def call(self, step):
        """Calls a tool so many times at once, each time with a key of its own."""
        function = self.functions[step["tool"]]
        keys = [f"k{n}" for n in range(step["times"])]
        return {"texts": await asyncio.gather(*(function.ainvoke({"key": key}) for key in keys))}

    async def kill(self, step):
        """Kills the server that started last, and waits until its process is gone."""
        with open(self.ledger, encoding="utf-8") as file:
            started = [line.split() for line in file]
        pid = [int(words[1]) for words in started if words[0] == "start"][-1]
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(GONE_WITHIN):
            while not is_gone(pid):
                await asyncio.sleep(LOOK)
        return {"killed": pid}


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[-1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def main(configuration, ledger, steps):
    config = load_config(configuration)
    [(name, group)] = config.function_groups.items()
    async with WorkflowBuilder(general_config=config.general) as builder:
        built = await builder.add_function_group(name, group)
        known = Steps(await built.get_accessible_functions(), ledger)
        for step in steps:
            told = await getattr(known, step["do"])(step)
            print(json.dumps({"do": step["do"]} | told), flush=True)


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
