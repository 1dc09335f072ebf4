"""A task's name → its files, network and score. The only file that lists the six tasks."""

from stelmo.config import choose
from stelmo.tasks.coref import data as coref_data
from stelmo.tasks.coref import model as coref_model
from stelmo.tasks.coref import score as coref_score
from stelmo.tasks.ner import data as ner_data
from stelmo.tasks.ner import model as ner_model
from stelmo.tasks.ner import score as ner_score
from stelmo.tasks.snli import data as snli_data
from stelmo.tasks.snli import model as snli_model
from stelmo.tasks.snli import score as snli_score
from stelmo.tasks.squad import data as squad_data
from stelmo.tasks.squad import model as squad_model
from stelmo.tasks.squad import score as squad_score
from stelmo.tasks.srl import data as srl_data
from stelmo.tasks.srl import model as srl_model
from stelmo.tasks.srl import score as srl_score
from stelmo.tasks.sst5 import data as sst5_data
from stelmo.tasks.sst5 import model as sst5_model
from stelmo.tasks.sst5 import score as sst5_score
from stelmo.tasks.task import AnyTask, Task

# The type parameters are explicit so that mypy checks each module; inferred for a list of AnyTask they would be Any.
_TASKS: list[AnyTask] = [
    Task[squad_data.Example, squad_data.Prediction](
        "squad", squad_data, squad_model, squad_score.score, squad_data.read
    ),
    Task[snli_data.Example, snli_data.Prediction]("snli", snli_data, snli_model, snli_score.score, snli_data.read),
    Task[srl_data.Example, srl_data.Prediction]("srl", srl_data, srl_model, srl_score.score, srl_data.read),
    Task[coref_data.Example, coref_data.Prediction](
        "coref", coref_data, coref_model, coref_score.score, coref_data.read
    ),
    Task[ner_data.Example, ner_data.Prediction]("ner", ner_data, ner_model, ner_score.score, ner_data.read),
    Task[sst5_data.Example, sst5_data.Prediction](
        "sst5", sst5_data, sst5_model, sst5_score.score, sst5_data.read_train
    ),
]
TASKS = {task.name: task for task in _TASKS}


def named(name: str) -> AnyTask:
    choose("task", name, tuple(TASKS))
    return TASKS[name]
