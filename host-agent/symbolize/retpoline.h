/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Returns that are jumps, by the instructions before them
 *
 * A retpoline calls code of its own that replaces the return address, so that
 * nothing predicts where its return goes.  A safe return calls code that drops
 * the new return address, and returns to the one before.
 *
 * Names do not say: Linux replaces its thunks, and calls of them, when it
 * boots, and a program can be without symbols.  It has one of these forms,
 * where an int3 can also be pause, lfence and a jump back:
 *
 *   indirect jump (a call is a call of it)         where
 *   ---------------------------------------------  ----------------------------
 *   call 1f; int3; 1: mov %rax,(%rsp); ret         thunks of gcc, LLVM and Go;
 *                                                  of Linux on most CPUs
 *   call 1f; int3; 1: mov %rax,(%rsp); jmp RETURN  those of Linux if it has
 *                                                  return thunks
 *   jmp 3f; 2: call 1f; int3; 1: mov %rax,(%rsp);  gcc, if it is to use no
 *   ret; 3: call 2b                                thunks: a call
 *   [lfence;] jmp *%rax                            Linux: LFENCE, ITS, none
 *   [lfence;] call *%rax                           LFENCE, none
 *
 *   RETURN, a real return                          where
 *   ---------------------------------------------  ----------------------------
 *   ret                                            Linux: no thunks, ITS,
 *                                                  untrained (retbleed)
 *   call 1f; int3; 1: lea 8(%rsp),%rsp; ret        gcc; Linux: srso.  The call
 *                                                  can be far from its target
 *   shlq ...; jz 1f; ret; 1: call 2f; int3; 2: ... Linux: call depth; its calls
 *   add $128,%rsp; ret                             fill the return predictor
 *
 * Seen in Linux 6.1, 6.12 and 7.3 of Debian on QEMU's CPUs: qemu64 and max have
 * retpolines with ret; EPYC with jumps to srso_return_thunk (EPYC-Milan to
 * srso_alias_return_thunk); Skylake-Client and Cascadelake-Server to
 * its_return_thunk, with retbleed=stuff to call_depth_return_thunk.
 *
 * The function graph tracer of Linux ends in the first or second form as well
 * (return_to_handler), and goes to a caller.
 */

#ifndef BTRAIL_RETPOLINE_H
#define BTRAIL_RETPOLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At most this many bytes are between a call and what replaces its address. */
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
