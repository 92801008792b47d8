/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's own BTS driver, and a 32-bit program
 *
 * rig: kernel=original
 * rig: cflags=-m32
 * rig: walk=walk_begin walk_end T N*2 T T*2 N =leaf T
 */
#include "aux.h"

static void traced(long fd)
{
    asm volatile(
        "   pushl   %%ebx\n"
        "   movl    %[fd], %%ebx\n"
        "   movl    %[ioctl], %%eax\n"
        "   movl    %[enable], %%ecx\n"
        "   xorl    %%edx, %%edx\n"
        "   int     $0x80\n"
        "walk_begin:\n"
        "   jmp     1f\n"
        "   ud2\n"
        "1: xorl    %%eax, %%eax\n"
        "   jz      2f\n"               /* T */
        "   ud2\n"
        "2: movl    $3, %%esi\n"
        "3: decl    %%esi\n"
        "   jz      4f\n"               /* N N T */
        "   jmp     3b\n"
        "4: movl    $3, %%ecx\n"
        "5: nop\n"
        "   loop    5b\n"               /* T T N */
        "   call    leaf\n"
        "   movl    $leaf, %%eax\n"
        "   call    *%%eax\n"           /* =leaf */
        "   xorl    %%ecx, %%ecx\n"
        "   jcxz    6f\n"               /* T */
        "   ud2\n"
        "6:\n"
        "walk_end:\n"
        "   movl    %[ioctl], %%eax\n"
        "   movl    %[disable], %%ecx\n"
        "   xorl    %%edx, %%edx\n"
        "   int     $0x80\n"
        "   jmp     7f\n"
        "leaf:\n"
        "   nop\n"
        "   ret\n"
        "7: popl    %%ebx\n"
        :
        : [ioctl] "i"(SYS_ioctl), [fd] "r"(fd),
          [enable] "i"(PERF_EVENT_IOC_ENABLE),
          [disable] "i"(PERF_EVENT_IOC_DISABLE)
        : "eax", "ecx", "edx", "esi", "memory", "cc");
}

int main(void)
{
    struct aux aux = aux_open(false, true, 64 * 4096, 0);
    struct record *list;
    size_t count;

    traced(aux.fd);
    list = aux_records(&aux, &count);
    aux_is_walk(list, count);
    return 0;
}
