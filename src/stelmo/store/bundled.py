"""The model that comes with the package. Until one is trained it is a stand-in, and says so."""

from stelmo.config import CharInput, LstmConfig, ModelConfig
from stelmo.model.bilm import BiLM
from stelmo.store.saved import SavedModel

NOTICE = (
    "the bundled model is an untrained stand-in with random weights: its vectors have the right shape and are "
    "repeatable, but carry no meaning; load a trained model by its path"
)
SEED = 2018


def stand_in() -> SavedModel:
    """A small architecture with the initial values of training, always the same."""
    config = ModelConfig(
        input=CharInput(embedding=16, filters=((1, 32), (2, 32), (3, 64), (4, 128)), highways=1),
        lstm=LstmConfig(cells=256, projection=64, layers=2, cell_clip=3.0, projection_clip=3.0),
    )
    return SavedModel(BiLM(config).reset(SEED).requires_grad_(False), "untrained stand-in")
