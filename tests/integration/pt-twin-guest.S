/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that is made twice, for tests/integration/pt-live: at the same
 * addresses, with the same branches in the same order, but PADDING bytes
 * further on.  The packets of one fit the code of the other, unless they say an
 * address.
 */
    .globl _start
_start:
    mov     $300, %ebx
1:
    mov     $7, %ecx
    .skip   PADDING, 0x90
2:
    call    3f
    dec     %ecx
    jnz     2b
    dec     %ebx
    jnz     1b
    mov     $60, %eax               /* exit */
    xor     %edi, %edi
    syscall
3:
    test    $1, %ecx
    jz      4f
    .skip   PADDING, 0x90
    nop
4:
    ret
