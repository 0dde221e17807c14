"""Run commands of ecgfed one after the other in this process; print their exit codes as JSON: [[arguments], ...]."""

import gc
import json
import sys

from ecgfed_cli.main import main

codes = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["ecgfed", *arguments]
    code: object = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code
    gc.collect()  # as where each is a process of its own: what it had open is closed
    codes.append(code)
sys.__stdout__.write(f"\n{json.dumps(codes)}\n")
