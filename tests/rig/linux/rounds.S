/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program without libc, so that each of its branches is known, from the
 * first instruction to the last: rounds of calls, jumps and loops, after each
 * of which it sleeps, which gives way to who reads its trace.  With arguments
 * it takes the longer the more there are (16 at most), without more branches.
 *
 * rig: code=yes
 * rig: walk=_start end ((=leaf =there N T =leaf =there T T)*49 =leaf =there N T =leaf =there T N T*99 N T)*3 (=leaf =there N T =leaf =there T T)*49 =leaf =there N T =leaf =there T N T*99 N N
 */
    .set    NR_NANOSLEEP, 35
    .set    NR_EXIT, 60
    .globl  _start, end, leaf, there

_start:
    movl    (%rsp), %r12d
    decl    %r12d
    shll    $17, %r12d          /* bytes to be read at a time */
    movl    $4, %ebp
round:
    movl    $100, %ebx
1:  call    leaf
    leaq    leaf(%rip), %rax
    call    *%rax               /* =leaf */
    leaq    there(%rip), %rax
    jmp     *%rax               /* =there */
    ud2
there:
    testl   $1, %ebx
    jnz     2f                  /* N, T, N, T ... */
    nop
2:  decl    %ebx
    jnz     1b                  /* T*99 N */
    movl    $100, %ecx
3:  loop    3b                  /* T*99 N */
    .rept   16
    leaq    bytes(%rip), %rsi
    movl    %r12d, %ecx
    rep lodsb
    .endr
    movl    $NR_NANOSLEEP, %eax
    leaq    time(%rip), %rdi
    xorl    %esi, %esi
    syscall
    decl    %ebp
    jnz     round               /* T*3 N */
end:
    movl    $NR_EXIT, %eax
    xorl    %edi, %edi
    syscall
leaf:
    nop
    ret

    .section .rodata
time:
    .quad   0, 20000000
    .comm   bytes, 0x200000
