"""What tests share: mock clocks and disks, and other people's servers and clients."""
