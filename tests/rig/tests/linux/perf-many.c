/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The same with so many branches that the buffer's threshold is reached
 *
 * Each interrupt hands over what there is to perf; none may lose a record.
 *
 * rig: kernel=original
 * rig: walk=walk_begin walk_end (T N T)*9999 T N N T*19999 N
 */
#include "aux.h"

static void traced(long fd)
{
    asm volatile(
        AUX_ENABLE
        "walk_begin:\n"
        "   movl    $10000, %%ebx\n"
        "1: xorl    %%eax, %%eax\n"
        "   jz      2f\n"
        "   ud2\n"
        "2: jnz     2b\n"
        "   call    leaf\n"
        "   decl    %%ebx\n"
        "   jnz     1b\n"
        "   movl    $20000, %%ecx\n"
        "3: nop\n"
        "   loop    3b\n"
        "walk_end:\n"
        AUX_DISABLE
        "   jmp     4f\n"
        "leaf:\n"
        "   ret\n"
        "4:\n"
        :
        : AUX_OPERANDS(fd)
        : AUX_CLOBBERS);
}

int main(void)
{
    struct aux aux = aux_open(false, true, 512 * 4096, 0x10000);
    struct record *list;
    unsigned long before = aux_nmis();
    size_t count;

    traced(aux.fd);
    printf("%lu interrupts\n", aux_nmis() - before);
    CHECK(aux_nmis() > before + 10);
    list = aux_records(&aux, &count);
    aux_is_walk(list, count);
    return 0;
}
