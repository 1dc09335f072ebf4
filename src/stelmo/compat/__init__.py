"""The interfaces of older programs over stelmo's models: one module for each, used by changing one import line.

Each module has a table `IMPORTS` of the names that old scripts import and a table `ABSENT` of those that are not here,
with what takes their place; docs/migration.md shows both. `allennlp_stateful` is `allennlp` with other defaults.
"""

MODULES = ("allennlp", "bilm", "tfhub", "simple_elmo", "elmoformanylangs")
COMMANDS = {"allennlp elmo INPUT OUTPUT --all …": "stelmo embed INPUT OUTPUT --all …"}
