/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * spin: a guest that takes one branch every SPIN_INSNS instructions, for ever
 *
 * At a rate this low a slab is not full for tens of milliseconds, so what
 * tells the time in between is the tick.  And since the guest never does
 * anything else, the number of records tells how long it has run, however
 * often the host has taken the CPU away from QEMU.
 *
 * The instructions go to memory because others are nothing to TCG.
 */

#define SPIN_INSNS      4000

#include "multiboot.h"
    cli
    movl $word, %esp
1:
    .rept SPIN_INSNS - 1
    incl (%esp)
    .endr
    jmp 1b

    .bss
    .balign 4
word:
    .skip 4
