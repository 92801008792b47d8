/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process that works whenever it reads a byte, and says so when it has, until
 * there is nothing more to read: each branch of such a turn is known.  With
 * arguments the first turn takes the longer the more there are (16 at most),
 * without more branches.
 *
 * rig: code=yes
 * rig: walk=begin wait N ((=leaf T)*99 =leaf N T*99 N T)*3 (=leaf T)*99 =leaf N T*99 N N
 */
    .set    NR_READ, 0
    .set    NR_WRITE, 1
    .set    NR_EXIT, 60
    .globl  _start, wait, begin, leaf

_start:
    movl    (%rsp), %r12d
    decl    %r12d
    shll    $17, %r12d          /* bytes to be read at a time */
wait:
    xorl    %eax, %eax          /* NR_READ */
    xorl    %edi, %edi
    leaq    byte(%rip), %rsi
    movl    $1, %edx
    syscall
begin:
    testl   %eax, %eax
    jle     end                 /* N */
    movl    $4, %ebp
round:
    movl    $100, %ebx
1:  leaq    leaf(%rip), %rax
    call    *%rax               /* =leaf */
    decl    %ebx
    jnz     1b                  /* T*99 N */
    movl    $100, %ecx
2:  loop    2b                  /* T*99 N */
    .rept   16
    leaq    bytes(%rip), %rsi
    movl    %r12d, %ecx
    rep lodsb
    .endr
    decl    %ebp
    jnz     round               /* T*3 N */
    movl    $NR_WRITE, %eax
    movl    $1, %edi
    leaq    text(%rip), %rsi
    movl    $text_end - text, %edx
    syscall
    xorl    %r12d, %r12d
    jmp     wait
end:
    movl    $NR_EXIT, %eax
    xorl    %edi, %edi
    syscall
leaf:
    nop
    ret

    .section .rodata
text:
    .ascii  "guest: turn\n"
text_end:
    .comm   byte, 1
    .comm   bytes, 0x200000
