/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A program for tests to look at: what is at which line matters. */
#include <stdio.h>

int sample_data = 1;

__attribute__((noinline)) static int sample_leaf(int n)
{
    return n * sample_data;     /* line 9 */
}

__attribute__((noinline, used)) static int sample_local(int n)
{
    return sample_leaf(n) + sample_leaf(n + 1);
}

/* What has no size ends where the next one begins. */
__asm__(".text\n.globl _text\n_text: nop\n.globl sample_label\nsample_label: nop; nop; nop; ret\n"
        "sample_next: ret; schedule: ret");

int main(int argc, char **argv)
{
    return printf("%d\n", sample_local(argc)) < 0;
}
