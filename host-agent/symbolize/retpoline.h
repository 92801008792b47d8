/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Returns that are jumps, by the instructions before them
 *
 * A retpoline calls code of its own that replaces the return address, so that
 * nothing predicts where its return goes.  A safe return calls code that drops
 * the new return address, and returns to the one before.
 */

#ifndef BTRAIL_RETPOLINE_H
#define BTRAIL_RETPOLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At most so many bytes are between a call and what replaces its address. */
#define RETPOLINE_SKIP      32

/* What retpoline_end() looks at before a return, and retpoline_target() */
#define RETPOLINE_BEFORE    (RETPOLINE_SKIP + 9)
#define RETPOLINE_TARGET    16

/**
 * retpoline_end - is this what leads to the return of a retpoline?
 * @code: the bytes before the return, or before the jump to a return thunk; at
 *        most the last RETPOLINE_BEFORE are looked at
 * @bits: 16, 32 or 64: the mode that it runs in
 *
 * True if @code ends with an instruction that replaces the return address, and
 * has a call of that instruction.
 */
bool retpoline_end(const uint8_t *code, size_t n, unsigned bits);

/**
 * retpoline_target - does nothing return to the caller of this?
 * @code:  the bytes that a call goes to
 * @near:  at most RETPOLINE_SKIP bytes are between the call and them
 *
 * True if the first instruction replaces or drops the return address, and the
 * next one is a return, or a jump to one.
 */
bool retpoline_target(const uint8_t *code, size_t n, unsigned bits, bool near);

#endif /* BTRAIL_RETPOLINE_H */
