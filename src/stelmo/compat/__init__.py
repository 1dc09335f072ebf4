"""The old programs' names over today's models: one file for each, a drop-in by changing one import line."""
