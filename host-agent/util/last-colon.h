/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where PROCESS:FUNCTION is split
 *
 * A process can have any name, also with colons and brackets.  A function of
 * C++ or Rust has colons in "::", and others only in brackets, as in
 * "std::f[abi:cxx11](int)".
 */

#ifndef BTRAIL_LAST_COLON_H
#define BTRAIL_LAST_COLON_H

#include <stdbool.h>

/*
 * The last colon that no function after it can have: it is no part of "::", and
 * in what follows each bracket is closed.  NULL if there is none.
 */
const char *last_colon(const char *text);

/* Is each bracket closed, and none that was not open? */
bool last_colon_closed(const char *function);

/* The first comma that is in no bracket of a function, nor in the name of an
 * operator, or NULL */
const char *last_colon_comma(const char *function);

#endif /* BTRAIL_LAST_COLON_H */
