"""Times the AMX rows beside the f32 (and 8-bit) rows that serve fewer rows: where tiles begin to win, and how far they reach.

python -m fewbit.kernels.cpu.linear_amx.bench [options of linear_i8/bench.py]
"""

from fewbit.kernels.cpu.linear_i8 import bench

if __name__ == "__main__":
    bench.main()
