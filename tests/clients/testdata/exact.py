"""Prints the result of the job of the argument: a number as it is, and all of them with a hook for floats."""
import decimal, sys, osqueue

print(osqueue.Client().wait(sys.argv[1], 20)["result"][0])
print(*osqueue.Client(parse_float=decimal.Decimal).wait(sys.argv[1], 20)["result"])
