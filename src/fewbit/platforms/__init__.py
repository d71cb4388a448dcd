"""What machines provide: `known.py` lists platforms by name, `x86/` and `linux/` read this one."""
