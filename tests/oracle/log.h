/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QEMU's log: see log.c
 */
#ifndef LOG_H
#define LOG_H

#include "derive.h"

/* Reads the log from standard input, to its end. */
void log_read(struct derive *d);

#endif
