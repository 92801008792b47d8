/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A kernel module that is made twice, for tests/integration/pt-live: with the
 * same branches in the same order, but PADDING bytes further on; see
 * pt-twin-guest.S.  What a module has to be is taken from another one of that
 * kernel: MODULE_SIZE, of struct module, MODULE_INIT and MODULE_EXIT, where it
 * has its functions, and VERMAGIC.
 */
    .globl init_module, cleanup_module
init_module:
    push    %rbx
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
    pop     %rbx
    xor     %eax, %eax
    ret
3:
    test    $1, %ecx
    jz      4f
    .skip   PADDING, 0x90
    nop
4:
    ret
cleanup_module:
    ret

    .section .gnu.linkonce.this_module, "aw"
    .balign 64
    .skip   24                      /* its state and a list */
5:
    .asciz  NAME
    .skip   MODULE_INIT - 24 - (. - 5b)
    .quad   init_module
    .skip   MODULE_EXIT - MODULE_INIT - 8
    .quad   cleanup_module
    .skip   MODULE_SIZE - MODULE_EXIT - 8

    .section .modinfo, "a"
    .asciz  "license=GPL"
    .asciz  "name=" NAME
    .asciz  "retpoline=Y"
    .asciz  "depends="
    .asciz  VERMAGIC
