"""The published figures of the paper's tables.

On test sets in Table 1, on development sets in Tables 2 and 3.
"""

from typing import NamedTuple


class Published(NamedTuple):
    baseline: float
    elmo: float


TITLES = {"squad": "SQuAD", "snli": "SNLI", "srl": "SRL", "coref": "Coref", "ner": "NER", "sst5": "SST-5"}
TABLE_1 = {
    "squad": Published(81.1, 85.8),
    "snli": Published(88.0, 88.7),
    "srl": Published(81.4, 84.6),
    "coref": Published(67.2, 70.4),
    "ner": Published(90.15, 92.22),
    "sst5": Published(51.4, 54.7),
}
# Baseline, last layer alone, all with λ = 1, all with λ = 0.001.
TABLE_2 = {
    "squad": (80.8, 84.7, 85.0, 85.2),
    "snli": (88.1, 89.1, 89.3, 89.5),
    "srl": (81.6, 84.1, 84.6, 84.8),
}
# Input alone, input and output, output alone.
TABLE_3 = {"squad": (85.1, 85.6, 84.8), "snli": (88.9, 89.5, 88.7), "srl": (84.7, 84.3, 80.9)}
TABLE_5 = {"WordNet 1st sense": 65.9, "Raganato et al. 2017": 69.9, "Iacobacci et al. 2016": 70.1,
           "CoVe, layer 1": 59.4, "CoVe, layer 2": 64.7, "biLM, layer 1": 67.4, "biLM, layer 2": 69.0}  # fmt: skip
TABLE_6 = {"Collobert et al. 2011": 97.3, "Ma and Hovy 2016": 97.6, "Ling et al. 2015": 97.8,
           "CoVe, layer 1": 93.3, "CoVe, layer 2": 92.8, "biLM, layer 1": 97.3, "biLM, layer 2": 96.8}  # fmt: skip
# Perplexity of the development text before and after one epoch of tuning.
TABLE_7 = {"snli": (72.1, 16.8), "squad": (99.1, 43.5), "ner": (103.2, 46.3), "sst5": (131.5, 78.6)}
