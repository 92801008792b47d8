/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace of a kernel whose modules come and go
 */

#ifndef BTRAIL_SYMBOL_SAMPLES_H
#define BTRAIL_SYMBOL_SAMPLES_H

#include <stdint.h>

/* Where the modules are; the kernel has a function @do_work of 256 bytes */
#define SYMBOL_SAMPLES_MODULE   UINT64_C(0xffffffffc0562000)
#define SYMBOL_SAMPLES_KERNEL   UINT64_C(0xffffffff81000100)

/*
 * Module dummy is known to be there from 1000 to 2000, with functions
 * dummy_xmit (256 bytes) and dummy_setup (16); from 3000 on it is tun, with
 * tun_get (128 bytes) and tun_put (16).  Module stays, 0x2000 before them, is
 * there all the time, with its function stay (32).  At 1500, 2500 and 3500 a
 * record goes from do_work to where both modules begin, and one from there to
 * do_work.
 */
void symbol_samples_write(const char *path);

#endif /* BTRAIL_SYMBOL_SAMPLES_H */
