/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's own BTS driver sees just the branches that a program takes
 *
 * rig: kernel=original
 * rig: walk=walk_begin walk_end T N*4 T*5 N =leaf =after_indirect N T T N T N
 */
#include "aux.h"

static struct aux aux;

/* One round: the events of the kernel, enabled and disabled by bare system
   calls, so that nothing but what is written here is traced. */
static void traced(long fd)
{
    asm volatile(
        AUX_ENABLE
        "walk_begin:\n"
        "   jmp     1f\n"
        "   ud2\n"
        "1: xorl    %%eax, %%eax\n"
        "   jz      2f\n"               /* T */
        "   ud2\n"
        "2: jnz     2b\n"               /* N */
        "   movl    $4, %%ebx\n"
        "3: decl    %%ebx\n"
        "   jz      4f\n"               /* N N N T */
        "   jmp     3b\n"
        "4: movl    $5, %%ecx\n"
        "5: nop\n"
        "   loop    5b\n"               /* T*4 N */
        "   call    leaf\n"
        "   leaq    leaf(%%rip), %%rax\n"
        "   call    *%%rax\n"           /* =leaf */
        "   leaq    after_indirect(%%rip), %%rax\n"
        "   jmp     *%%rax\n"           /* =after_indirect */
        "   ud2\n"
        "after_indirect:\n"
        "   movl    $39, %%eax\n"       /* getpid */
        "   syscall\n"
        "   call    outer\n"
        "   xorl    %%ecx, %%ecx\n"
        "   jrcxz   6f\n"               /* T */
        "   ud2\n"
        "6: incl    %%ecx\n"
        "   jrcxz   6b\n"               /* N */
        "walk_end:\n"
        AUX_DISABLE
        "   jmp     7f\n"
        "leaf:\n"
        "   nop\n"
        "   ret\n"
        "outer:\n"
        "   movl    $2, %%ebx\n"
        "8: call    leaf\n"
        "   testl   $1, %%ebx\n"
        "   jnz     9f\n"               /* N, T */
        "   call    leaf\n"
        "9: decl    %%ebx\n"
        "   jnz     8b\n"               /* T, N */
        "   ret\n"
        "7:\n"
        :
        : AUX_OPERANDS(fd)
        : AUX_CLOBBERS);
}

int main(void)
{
    struct record *list;
    size_t count;

    aux = aux_open(false, true, 64 * 4096, 0);
    traced(aux.fd);
    list = aux_records(&aux, &count);
    aux_is_walk(list, count);
    return 0;
}
