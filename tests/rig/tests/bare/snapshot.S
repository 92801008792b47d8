/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bochs saves the state of the machine in mid-trace, ends, and goes on with it
 * when it is started again
 *
 * rig: snapshot=yes
 */
#include "bare.h"

    .set    SAVE_PORT, 0x8901

    .text
    .globl test
test:
    TRACE_ON TRACE
    B 1f, jmp 1f
    nop
1:  movw    $SAVE_PORT, %dx
    outb    %al, %dx
    B 2f, jmp 2f
    nop
2:  B 3f, jmp 3f
    nop
3:  TRACE_OFF
    CHECK "before and after"

    /* While it is off, nothing turns it on. */
    TRACE_ON TRACE
    B 4f, jmp 4f
    nop
4:  TRACE_OFF
    jmp     5f
    nop
5:  CHECK "off"
    ret
