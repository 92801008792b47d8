/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plugin.so: a library that is loaded late */

unsigned plugin_work(unsigned i);

/* Only .symtab has it. */
static unsigned __attribute__((noinline)) plugin_local(unsigned i)
{
    __asm__ volatile("" : "+r" (i));
    return i * 7;
}

unsigned __attribute__((noinline)) plugin_work(unsigned i)
{
    return plugin_local(i) ^ 3;
}
