"""Run one import statement and print how long it took: `python import_once.py "import json"`."""

import sys
import time

start = time.process_time()
exec(sys.argv[1])
elapsed = time.process_time() - start
print(f'{{"seconds": {elapsed}}}')
