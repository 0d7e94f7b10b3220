// RealtimeTesting
