/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hand-made streams of Intel PT
 */

#ifndef PT_SAMPLES_H
#define PT_SAMPLES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* The first bytes of packets with an address */
#define PT_TIP      0x0d
#define PT_TIP_PGE  0x11
#define PT_TIP_PGD  0x01
#define PT_FUP      0x1d

/* The payloads of MODE.Exec */
#define PT_MODE_16  0
#define PT_MODE_64  1
#define PT_MODE_32  2

/* Bytes written as hex digits, with blanks anywhere */
void pt_put(GByteArray *s, const char *hex);

/* @branches: such as "tn": taken, not taken; up to 47 */
void pt_put_tnt(GByteArray *s, const char *branches);

/* @bytes: of the address: 0, 2, 4, 6 (extended by its sign), 8 */
void pt_put_ip(GByteArray *s, unsigned packet, unsigned bytes, uint64_t ip);

void pt_put_pip(GByteArray *s, uint64_t cr3, bool guest);
void pt_put_mode(GByteArray *s, unsigned mode);
void pt_put_tsc(GByteArray *s, uint64_t tsc);

/* PSB, MODE.Exec, PIP, FUP if @ip is not 0, PSBEND */
void pt_put_psb(GByteArray *s, unsigned mode, uint64_t cr3, bool guest,
                uint64_t ip);

#endif /* PT_SAMPLES_H */
