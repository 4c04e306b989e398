"""LLVM IR of the two loops that have to be fast: cutting packets, following program counters."""

from __future__ import annotations

DECODE = """
; state: position, clock, anchored, offset, odd timestamps, overrun
; rows: 256 words by low byte, mask of a marker, its value, limit of the clock
define i64 @decode(ptr noalias %data, ptr noalias %state, ptr noalias %rows, ptr noalias %counts,
                   i64 %stop, ptr noalias %positions, ptr noalias %kinds, ptr noalias %times,
                   ptr noalias %raws, i64 %room) {
entry:
  %clock_at = getelementptr i64, ptr %state, i64 1
  %anchored_at = getelementptr i64, ptr %state, i64 2
  %offset_at = getelementptr i64, ptr %state, i64 3
  %odd_at = getelementptr i64, ptr %state, i64 4
  %overrun_at = getelementptr i64, ptr %state, i64 5
  %mark_mask_at = getelementptr i64, ptr %rows, i64 256
  %mark_value_at = getelementptr i64, ptr %rows, i64 257
  %limit_at = getelementptr i64, ptr %rows, i64 258
  %mark_mask = load i64, ptr %mark_mask_at
  %mark_value = load i64, ptr %mark_value_at
  %limit = load i64, ptr %limit_at
  %position_0 = load i64, ptr %state
  %clock_0 = load i64, ptr %clock_at
  br label %head

head:
  %position = phi i64 [ %position_0, %entry ], [ %next, %write ]
  %clock = phi i64 [ %clock_0, %entry ], [ %stamp, %write ]
  %n = phi i64 [ 0, %entry ], [ %n_next, %write ]
  %inside = icmp ult i64 %position, %stop
  %space = icmp ult i64 %n, %room
  %more = and i1 %inside, %space
  br i1 %more, label %cut, label %done

cut:  ; 64 bits from any nibble: eight bytes, and at odd ones half of a ninth
  %byte = lshr i64 %position, 1
  %odd = and i64 %position, 1
  %shift = shl i64 %odd, 2
  %here = getelementptr i8, ptr %data, i64 %byte
  %there = getelementptr i8, ptr %here, i64 %odd
  %low = load i64, ptr %here, align 1
  %high = load i64, ptr %there, align 1
  %low_shifted = lshr i64 %low, %shift
  %high_shifted = shl i64 %high, %shift
  %all = sub i64 0, %odd
  %top = and i64 %all, -1152921504606846976
  %last = and i64 %high_shifted, %top
  %raw = or i64 %low_shifted, %last
  %key = and i64 %raw, 255
  %row_at = getelementptr i64, ptr %rows, i64 %key
  %row = load i64, ptr %row_at
  %size = and i64 %row, 255
  %kind_row = lshr i64 %row, 8
  %kind = and i64 %kind_row, 255
  %time_row = lshr i64 %row, 16
  %time_low = and i64 %time_row, 63
  %width_row = lshr i64 %row, 24
  %width = and i64 %width_row, 63
  %bit = shl i64 1, %width
  %mask = sub i64 %bit, 1
  %moved = lshr i64 %raw, %time_low
  %field = and i64 %moved, %mask
  %scale_row = lshr i64 %row, 44
  %scale = and i64 %scale_row, 15
  %cycles = shl i64 %field, %scale
  %bias_row = lshr i64 %row, 32
  %bias = and i64 %bias_row, 255
  %advance = add i64 %cycles, %bias
  %later = add i64 %clock, %advance
  %rule_row = lshr i64 %row, 40
  %rule = and i64 %rule_row, 15
  switch i64 %rule, label %stamped [ i64 1, label %mark
                                     i64 2, label %timestamp ]

mark:
  %marks = and i64 %raw, %mark_mask
  %is_mark = icmp eq i64 %marks, %mark_value
  %marked = select i1 %is_mark, i64 %clock, i64 %later
  br label %stamped

timestamp:
  %reserved = and i64 %raw, 65520
  %absolute = icmp eq i64 %reserved, 0
  br i1 %absolute, label %counter, label %odd_one

odd_one:
  %odds = load i64, ptr %odd_at
  %odds_next = add i64 %odds, 1
  store i64 %odds_next, ptr %odd_at
  br label %stamped

counter:
  %count = lshr i64 %raw, 16
  %anchored = load i64, ptr %anchored_at
  %is_anchored = icmp ne i64 %anchored, 0
  br i1 %is_anchored, label %absolute_time, label %anchor

anchor:
  %offset_new = sub i64 %count, %clock
  store i64 %offset_new, ptr %offset_at
  store i64 1, ptr %anchored_at
  br label %stamped

absolute_time:
  %offset = load i64, ptr %offset_at
  %since = sub i64 %count, %offset
  %whole = and i64 %since, -4
  %set = sub i64 %whole, 4
  br label %stamped

stamped:
  %stamp = phi i64 [ %later, %cut ], [ %marked, %mark ], [ %clock, %odd_one ],
                   [ %clock, %anchor ], [ %set, %absolute_time ]
  %sane = icmp ult i64 %stamp, %limit
  br i1 %sane, label %write, label %overrun

write:
  %position_at = getelementptr i64, ptr %positions, i64 %n
  %kind_at = getelementptr i8, ptr %kinds, i64 %n
  %time_at = getelementptr i64, ptr %times, i64 %n
  %raw_at = getelementptr i64, ptr %raws, i64 %n
  %kind_byte = trunc i64 %kind to i8
  store i64 %position, ptr %position_at
  store i8 %kind_byte, ptr %kind_at
  store i64 %stamp, ptr %time_at
  store i64 %raw, ptr %raw_at
  %keep_row = lshr i64 %row, 48
  %keep = and i64 %keep_row, 1
  %n_next = add i64 %n, %keep
  %count_at = getelementptr i64, ptr %counts, i64 %kind
  %seen = load i64, ptr %count_at
  %seen_next = add i64 %seen, 1
  store i64 %seen_next, ptr %count_at
  %next = add i64 %position, %size
  br label %head

overrun:
  store i64 1, ptr %overrun_at
  br label %done

done:
  store i64 %position, ptr %state
  store i64 %clock, ptr %clock_at
  ret i64 %n
}
"""

WALK = """
; One event after another: action, slot, argument -> program counter, or -1.
; pcs: a counter a slot, -1 where no wave is. Program: size and flags a dword, branch targets.
; actions: 0 start, 1 step, 2 step without passing over silent ones, 3 taken, 4 not taken,
;          5 another SIMD's, 6 end, 7 set (-1: closed)
; flags: 1 silent, 2 branch, 4 end of the program, 8 call, 16 jump to what a register holds
define i64 @walk(i64 %n, ptr noalias %actions, ptr noalias %slots, ptr noalias %args,
                 ptr noalias %pcs, i64 %base, i64 %length, ptr noalias %sizes,
                 ptr noalias %flags, ptr noalias %targets, ptr noalias %out, ptr noalias %why) {
entry:
  br label %head

head:
  %i = phi i64 [ 0, %entry ], [ %i_next, %tail ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %event, label %done

event:
  %out_at = getelementptr i64, ptr %out, i64 %i
  store i64 -1, ptr %out_at
  %action_at = getelementptr i8, ptr %actions, i64 %i
  %action = load i8, ptr %action_at
  %slot_at = getelementptr i8, ptr %slots, i64 %i
  %slot_byte = load i8, ptr %slot_at
  %slot = zext i8 %slot_byte to i64
  %pc_at = getelementptr i64, ptr %pcs, i64 %slot
  %pc_0 = load i64, ptr %pc_at
  switch i8 %action, label %moving [ i8 0, label %set
                                     i8 5, label %tail
                                     i8 7, label %set ]

set:
  %arg_at = getelementptr i64, ptr %args, i64 %i
  %arg = load i64, ptr %arg_at
  store i64 %arg, ptr %pc_at
  br label %tail

moving:
  %is_open = icmp sge i64 %pc_0, 0
  br i1 %is_open, label %find, label %fail_closed

find:  ; passes over what never makes a packet
  %pc = phi i64 [ %pc_0, %moving ], [ %pc_over, %silent ]
  %offset = sub i64 %pc, %base
  %aligned = and i64 %offset, 3
  %on_dword = icmp eq i64 %aligned, 0
  %index = ashr i64 %offset, 2
  %in_text = icmp ult i64 %index, %length
  %valid = and i1 %on_dword, %in_text
  br i1 %valid, label %known, label %fail_pc

known:
  %size_at = getelementptr i8, ptr %sizes, i64 %index
  %size_byte = load i8, ptr %size_at
  %size = zext i8 %size_byte to i64
  %flag_at = getelementptr i8, ptr %flags, i64 %index
  %flag = load i8, ptr %flag_at
  %is_code = icmp ne i8 %size_byte, 0
  br i1 %is_code, label %check, label %fail_pc

check:
  %silent_bit = and i8 %flag, 1
  %is_silent = icmp ne i8 %silent_bit, 0
  %plain = icmp ne i8 %action, 2
  %pass = and i1 %is_silent, %plain
  br i1 %pass, label %silent, label %act

silent:
  %pc_over = add i64 %pc, %size
  br label %find

act:
  %following = add i64 %pc, %size
  %branch_bit = and i8 %flag, 2
  %is_branch = icmp ne i8 %branch_bit, 0
  %target_at = getelementptr i64, ptr %targets, i64 %index
  %target = load i64, ptr %target_at
  switch i8 %action, label %fall [ i8 3, label %taken
                                   i8 4, label %not_taken
                                   i8 6, label %end ]

fall:
  br i1 %is_branch, label %fail_branch, label %store

not_taken:
  br i1 %is_branch, label %store, label %fail_jump

taken:
  %jumps_bits = and i8 %flag, 26
  %jumps = icmp ne i8 %jumps_bits, 0
  br i1 %jumps, label %store, label %fail_jump

end:
  %end_bit = and i8 %flag, 4
  %is_end = icmp ne i8 %end_bit, 0
  br i1 %is_end, label %store, label %fail_end

store:
  %new = phi i64 [ %following, %fall ], [ %following, %not_taken ], [ %target, %taken ],
                 [ -1, %end ]
  store i64 %pc, ptr %out_at
  store i64 %new, ptr %pc_at
  br label %tail

tail:
  %i_next = add i64 %i, 1
  br label %head

fail_closed:
  br label %fail
fail_pc:
  br label %fail
fail_branch:
  br label %fail
fail_jump:
  br label %fail
fail_end:
  br label %fail

fail:
  %code = phi i64 [ 1, %fail_closed ], [ 2, %fail_pc ], [ 3, %fail_branch ], [ 4, %fail_jump ],
                  [ 5, %fail_end ]
  store i64 %code, ptr %why
  ret i64 %i

done:
  ret i64 %n
}
"""

IR = DECODE + WALK
