"""The interfaces of older programs over stelmo's models: one module for each, used by changing one import line.

Each module has a table `IMPORTS` of the names that old scripts import; docs/migration.md opens with them.
"""

MODULES = ("allennlp", "bilm", "tfhub", "simple_elmo", "elmoformanylangs")
COMMANDS = {"allennlp elmo INPUT OUTPUT --all …": "stelmo embed INPUT OUTPUT --all …"}
