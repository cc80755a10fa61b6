// Package program has what the short programs here share.
package program

import (
	"fmt"
	"os"
	"time"
)

// Patience is the longest that a program runs.
const Patience = time.Minute

// Must ends the program with an error, unless it is nil.
func Must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
