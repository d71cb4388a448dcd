"""The cpu backend: C++ kernels in one library, reached by ctypes."""
