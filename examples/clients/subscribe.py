"""Subscribe with a content filter, in Python.

python subscribe.py mqtt://localhost:1883 "severity >= 3" 2
"""

import asyncio
import sys

import tidings


async def main(url: str, where: str, count: int) -> None:
    async with tidings.connect(url) as network, network.subscribe("traffic/#", where=where) as events:
        print("subscribed", file=sys.stderr, flush=True)
        async for event in events:
            print(event.topic, event.text, flush=True)
            count -= 1
            if count == 0:
                return


try:
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
except tidings.TidingsError as error:
    sys.exit(f"refused: {error}")
