"""What a unit of the machine costs on an FPGA, and in gates."""
