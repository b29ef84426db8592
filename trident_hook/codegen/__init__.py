"""From a set of specializations to the source of one Cython module. Pure: text in, text out, nothing is loaded."""
