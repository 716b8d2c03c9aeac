"""How far the calibrator that `compare_calibrators` recommends is from the best one."""
