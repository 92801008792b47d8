/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registers in what QEMU's "info registers" prints
 */

#ifndef BTRAIL_CLI_RR_REGISTERS_H
#define BTRAIL_CLI_RR_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>

/* A vector of 512 bits */
#define RR_REGISTER_GROUPS  8

/**
 * struct rr_register
 * @name: in lower case
 * @low:  its lowest 64 bits
 * @text: all of it, as 0x and 16 digits or more
 */
struct rr_register {
    char name[12];
    uint64_t low;
    char text[2 + 16 * RR_REGISTER_GROUPS + 1];
};

/*
 * The next register of at least 32 bits, other than the parts of segments;
 * moves @text past it.  False if there is none.
 */
bool rr_register_next(const char **text, struct rr_register *r);

#endif /* BTRAIL_CLI_RR_REGISTERS_H */
