# Runs the function of a payload, read from stdin, and writes what it returns, as
# JSON, to stdout. Prints of the code go to stderr: stdout is moved out of its way.
import json
import os
import sys
import traceback

REFUSED = 65  # no other attempt can help


def main():
    result = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # people may watch
    payload = json.load(sys.stdin.buffer)
    names = {"__name__": "python_exec"}
    try:
        code = compile(payload["code"], "<job>", "exec")
    except (SyntaxError, ValueError):
        traceback.print_exc(limit=0)
        return REFUSED
    exec(code, names)
    function = names.get(payload["function"])
    if not callable(function):
        print("the code defines no function %r" % payload["function"], file=sys.stderr)
        return REFUSED
    value = function(*(payload.get("args") or []), **(payload.get("kwargs") or {}))
    # Infinity and NaN are no JSON.
    result.write(json.dumps(value, ensure_ascii=False, allow_nan=False))
    result.close()
    return 0


try:
    status = main()
except SystemExit as end:
    print("the code has ended its process: %r" % end.code, file=sys.stderr)
    status = 1
except BaseException:
    traceback.print_exc()
    status = 1
sys.stdout.flush()
sys.exit(status)
