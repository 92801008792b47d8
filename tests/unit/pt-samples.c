/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hand-made streams of Intel PT: see pt-samples.h
 */

#include <string.h>

#include "pt-samples.h"

void pt_put(GByteArray *s, const char *hex)
{
    while (*hex) {
        uint8_t byte;

        if (*hex == ' ') {
            hex++;
            continue;
        }
        byte = g_ascii_xdigit_value(hex[0]) << 4 |
               g_ascii_xdigit_value(hex[1]);
        g_byte_array_append(s, &byte, 1);
        hex += 2;
    }
}

static void put_number(GByteArray *s, uint64_t n, unsigned bytes)
{
    uint64_t le = GUINT64_TO_LE(n);

    g_byte_array_append(s, (const uint8_t *)&le, bytes);
}

void pt_put_tnt(GByteArray *s, const char *branches)
{
    uint64_t bits = 1;

    for (const char *b = branches; *b; b++) {
        bits = bits << 1 | (*b == 't');
    }
    if (strlen(branches) <= 6) {
        put_number(s, bits << 1, 1);
    } else {
        g_assert_cmpuint(strlen(branches), <=, 47);
        pt_put(s, "02 a3");
        put_number(s, bits, 6);
    }
}

void pt_put_ip(GByteArray *s, unsigned packet, unsigned bytes, uint64_t ip)
{
    static const uint8_t forms[] = { 0, 0, 1, 0, 2, 0, 3, 0, 6 };

    put_number(s, packet | forms[bytes] << 5, 1);
    put_number(s, ip, bytes);
}

void pt_put_pip(GByteArray *s, uint64_t cr3, bool guest)
{
    pt_put(s, "02 43");
    put_number(s, cr3 >> 5 << 1 | guest, 6);
}

void pt_put_mode(GByteArray *s, unsigned mode)
{
    put_number(s, 0x99 | mode << 8, 2);
}

void pt_put_tsc(GByteArray *s, uint64_t tsc)
{
    put_number(s, 0x19, 1);
    put_number(s, tsc, 7);
}

void pt_put_psb(GByteArray *s, unsigned mode, uint64_t cr3, bool guest,
                uint64_t ip)
{
    pt_put(s, "0282 0282 0282 0282 0282 0282 0282 0282");
    pt_put_mode(s, mode);
    pt_put_pip(s, cr3, guest);
    if (ip) {
        pt_put_ip(s, PT_FUP, 6, ip);
    }
    pt_put(s, "02 23");
}
