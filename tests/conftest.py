"""One thread for every test process: several with several threads each, on few cores, wait for one another."""

import torch

torch.set_num_threads(1)
