"""One thread for every test process: several with several threads each, on few cores, wait for one another.

No test is timed, so Hypothesis may take as long as a busy machine does.
"""

import hypothesis
import torch

torch.set_num_threads(1)
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
