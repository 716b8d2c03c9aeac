"""Dask arrays: passes, time, memory and what larger data would take."""
