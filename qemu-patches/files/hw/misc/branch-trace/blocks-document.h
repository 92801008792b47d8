/*
 * Branch trace: the XML document in which GDB reads blocks
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_BLOCKS_DOCUMENT_H
#define HW_MISC_BRANCH_TRACE_BLOCKS_DOCUMENT_H

typedef struct BranchTraceBlock {
    uint64_t begin;
    uint64_t end;
} BranchTraceBlock;

/*
 * Writes what a document of @n blocks has from @offset on into @text: at most
 * @size bytes and no NUL.  Returns how many; 0 at the end and after it.
 *
 * All blocks take the same number of bytes, so that a document of millions need
 * not be kept as text.
 */
size_t branch_trace_document_read(const BranchTraceBlock *blocks, size_t n,
                                  uint64_t offset, char *text, size_t size);

/* How long the whole document is */
uint64_t branch_trace_document_size(size_t n);

#endif /* HW_MISC_BRANCH_TRACE_BLOCKS_DOCUMENT_H */
