"""Records of exports, read from each of the containers that they come in."""
