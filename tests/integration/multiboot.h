/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The begin of a guest that QEMU starts by Multiboot, in 32-bit protected mode
 * without paging: the header, and where it starts
 */

#define MULTIBOOT_MAGIC 0x1badb002

    .section .text
    .balign 4
    .long MULTIBOOT_MAGIC
    .long 0
    .long -MULTIBOOT_MAGIC

    .globl _start
_start:
