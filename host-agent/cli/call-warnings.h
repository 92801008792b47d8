/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Warnings about a call tree: how far its numbers can be trusted
 */

#ifndef BTRAIL_CALL_WARNINGS_H
#define BTRAIL_CALL_WARNINGS_H

#include "analyze/call-tree.h"

/* Reports on stderr how well calls and returns matched. */
void call_warnings_print(const struct call_tree *t);

#endif /* BTRAIL_CALL_WARNINGS_H */
