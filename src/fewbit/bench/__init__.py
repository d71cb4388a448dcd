"""What `fewbit bench` measures, beside the roofs of the machine that it runs on."""
