/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plugin.so: a library that is loaded late */

unsigned plugin_work(unsigned i);

unsigned __attribute__((noinline)) plugin_work(unsigned i)
{
    return i * 7 ^ 3;
}
