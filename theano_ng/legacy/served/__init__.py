"""A folder in the path of processes that a program under ``theano_ng-run`` starts, where they find `theano`."""
