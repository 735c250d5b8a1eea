// Package wide has comments that are too wide.
package wide

// This comment is wider than anybody's screen, because whoever wrote it did not look at where the line ended, or did not care.

func wide() {
	// Four columns for the tab make this one a column too wide, although it has one hundred and seventeen letters alone.
	_ = 0
	/*
		A block is read like any other comment, so it is held to the same width, whatever its author thought about that one.
	*/
}
